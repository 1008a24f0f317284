"""The gateway's client of the job: it appends request rows and reads responses."""
