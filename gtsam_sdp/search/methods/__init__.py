"""The methods of a search, each a `Method` of `gtsam_sdp.search.findings`."""
