//! Black-box tests on a running local Kubernetes with a node: real Envoy, real PostgreSQL, stand-in engines.
