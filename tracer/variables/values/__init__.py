"""Constants, text, dates, symbolic numbers."""
