"""What a running pipeline tells other systems: metrics, logs, traces, lineage. It looks on, and changes nothing."""
