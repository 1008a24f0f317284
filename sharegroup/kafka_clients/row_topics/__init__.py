"""Creates the three topics by which clients and the job exchange rows, writes requests, and reads responses."""
