"""Reads and writes the formats that others read: report/v1. Plain code; a change here is a change of the format."""
