//! Tests that disrupt the whole cluster, one at a time: the operator is killed, the API server restarts.

mod api_server_restart;
mod operator_crash;
