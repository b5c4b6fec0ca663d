"""Is everything as the guarantee needs it? Facts are asked for in one place and judged, purely, in another."""
