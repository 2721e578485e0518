"""What Python users, and the `grid` command, hold: a cluster and its jobs.

Lives here: one sans-io body (`calls`, `streams`, `exchange`), a blocking driver (`blocking`,
`cluster`) and its asyncio twin (`awaiting`, `async_cluster`).
Never here: the agent. The client knows only the wire, the model and the errors: it is light.
"""
