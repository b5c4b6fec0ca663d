"""The world around the application: a catalogue, seeded events, the truth about them, and the judge."""
