"""(facts, recipes) -> diagnosis. Pure functions: nothing here touches the machine."""
