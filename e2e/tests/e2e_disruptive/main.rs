//! What disturbs the whole cluster, one test at a time: the operator is killed, the API server restarts.

mod api_server;
mod operator;
