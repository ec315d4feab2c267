"""Consumers that are no runtime, on the lab: loops, pools, Java listeners, Kafka Streams, Connect's sinks, aiokafka, kafka-python."""

from evaluation.others.shapes import add_shapes

add_shapes()
