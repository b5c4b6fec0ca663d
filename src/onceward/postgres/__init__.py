"""PostgreSQL as a client sees it: what the sink and the lookup share."""
