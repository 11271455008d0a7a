"""The Berkeley Function-Calling Leaderboard: the published tasks, tools and checkers as environments."""
