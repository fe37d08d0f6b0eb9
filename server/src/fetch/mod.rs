//! Step five: obtains responses from origins.
//!
//! Only this step talks to origins. [`resolve`] decides whether a request leads a fetch, follows
//! another one, or is passed through. `exchange.rs` runs each single exchange. Each worker pools
//! its connections over hyper's HTTP/1.1 client, and shares those over HTTP/2 (`http2/`). Origins
//! may be hostile too, so everything that an origin sends is checked again by our own rules before
//! any of it is stored or passed on.

mod abandoned;
mod answer;
mod checks;
mod choose;
mod condition;
mod connect;
mod decompress;
mod ejection;
mod exchange;
mod failover;
mod files;
mod fill;
mod follow;
mod forwarded_path;
mod fragments;
mod group;
mod health;
mod hedge;
mod hosts;
mod http2;
mod join;
mod latency;
mod lead;
mod named;
mod origin_counts;
mod origins;
mod outbound;
mod owned_request;
mod part;
mod pass_through;
mod permits;
mod preempt;
mod proxy_header;
mod received_head;
mod resolve;
mod resume;
mod retry_budget;
mod sent_path;
mod stale;
mod tunnel;
mod tunnel_room;
mod upload;
mod upload_room;
mod validate;

pub(crate) use abandoned::AbandonedFetches;
pub(crate) use answer::{OriginAnswer, OriginBody, OriginPart};
pub(crate) use checks::start_due_checks;
pub(crate) use files::file_path;
pub(crate) use fragments::{
    FragmentFault, FragmentSource, fetch_ahead, forget_changed, obtain_fragment,
};
pub(crate) use hosts::Hosts;
pub use hosts::Resolver;
pub(crate) use join::{JoinContext, JoinKey, declined_detail};
pub(crate) use origin_counts::{OriginCount, OriginReport};
pub(crate) use origins::{Origins, pool_key};
pub(crate) use resolve::resolve;
pub(crate) use resume::{MissingRange, resume};
pub(crate) use sent_path::sent_path;
pub(crate) use stale::{StaleAnswer, StaleHit, StalePlan, stale_at_once, stale_if_error};
pub(crate) use tunnel::{OpenTunnel, OriginTunnel, open_tunnel};
pub(crate) use tunnel_room::TunnelRoom;
pub(crate) use upload::BodyUpload;
pub(crate) use upload_room::UploadRoom;
