def check(): pass
