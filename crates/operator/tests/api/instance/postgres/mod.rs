//! The database of an instance, and its credentials.

mod change;
mod credentials;
mod external;
mod password_secrecy;
