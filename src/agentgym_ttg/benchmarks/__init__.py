"""Commands: run, collect, speed, report, and what they share: settings, run folders, results."""
