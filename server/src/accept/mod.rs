//! Step one: accepts connections, counts and limits them, and gives each connection a ticket.

mod client;
mod idle_order;
mod listen;
mod network;
mod registry;

pub(crate) use client::Client;
pub(crate) use listen::{AdmittedConnection, accept_connections};
pub(crate) use network::ClientNetwork;
pub(crate) use registry::{Registry, StreamPermit, Ticket};
