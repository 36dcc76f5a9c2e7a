//! The admin interface of Envoy, for processes in the same pod only.

use serde::Serialize;

use super::ADMIN_PORT;
use super::message::Address;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Admin {
    address: Address,
    ignore_global_conn_limit: bool,
}

pub(super) fn admin() -> Admin {
    Admin {
        address: Address::loopback(ADMIN_PORT),
        // The drain of a full gateway must get through as well.
        ignore_global_conn_limit: true,
    }
}
