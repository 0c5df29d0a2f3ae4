"""Many nodes, one answer: reports are merged, or collected by the site's own engine, and held against a standard."""
