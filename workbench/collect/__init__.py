"""From the outside world to Arrow samples: Prometheus, Kafka itself, metrics pages, and captures of all of them."""
