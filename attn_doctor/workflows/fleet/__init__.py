"""Many nodes: merges reports, or collects them with the site's own engine, and compares them with a standard."""
