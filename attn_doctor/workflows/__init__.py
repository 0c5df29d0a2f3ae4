"""The doctor's workflows: each takes a request and returns a report or a result. They print and render nothing."""
