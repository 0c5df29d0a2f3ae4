"""Many reports of many nodes → one answer: who is missing, who fails, who differs from the others and in what."""
