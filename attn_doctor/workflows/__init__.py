"""What the doctor does, from a request to a report. A workflow prints nothing and renders nothing."""
