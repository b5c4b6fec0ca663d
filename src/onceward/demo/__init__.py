"""`onceward demo`: a job is killed again and again; then what came out is compared with what should have."""
