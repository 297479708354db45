"""Messages of the contract, files of messages, and digests."""
