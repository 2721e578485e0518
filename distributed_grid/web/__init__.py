"""The agent over HTTP: routes, streams, metrics, the OpenAPI document.

Lives here: serving. Never here: what the operations do (`agent`), their shapes (`wire.api`).
Invariant: whatever a client sends, the answer is one of ours or the connection is closed; the agent
stays up.
"""
