"""The mesh, sans-io: who belongs, what everyone has, who is alive, who talks to whom.

`machine.Mesh` composes the parts behind one `step(event) -> MeshReady`.
"""
