//! Purging and listing stored responses by host, prefix and tags, and tags from the origin's
//! response to a purge.

mod common;
mod groups;
mod list;
mod promise;
mod purge;
mod purge_method;
mod tags;
