"""bench links: what the model of the links says of operations and reshardings, beside what they take."""
