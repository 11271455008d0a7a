"""AgentWorldModel: small databases behind generated tools, with a verifier for each task."""
