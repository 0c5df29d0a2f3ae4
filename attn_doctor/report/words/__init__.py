"""The wording that the formats share."""
