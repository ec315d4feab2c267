"""Consumers that are no runtime, on the lab: loops, pools, Java's listeners, Streams and Connect, Python's clients and frameworks."""

from evaluation.others.shapes import add_shapes

add_shapes()
