"""Is a step scorer right about steps? Four evaluations: quality, attribution, uncertainty, best of N."""
