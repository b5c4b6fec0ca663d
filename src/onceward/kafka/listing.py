"""Which topics a cluster has."""

from kafka.protocol.metadata import MetadataRequest

from onceward.kafka.wire import Wire


def topic_names(wire: Wire) -> list[str]:
    """Of all topics that we may see, without Kafka's own."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = wire.settle(lambda: wire.call(wire.any_node(), request), "the cluster's topics")
    return sorted(topic.name for topic in answer.topics if topic.error_code == 0 and not topic.is_internal)
