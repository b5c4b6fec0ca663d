"""Sequences: what people do to pipelines, one thing after the other, killed on the way, compared with a pure model."""
