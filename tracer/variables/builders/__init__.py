"""From values that existed before the frame ran to their tracked form."""
