//! Purging and listing stored responses by host, prefix and tags, and the way of tags from the
//! origin to a purge.

mod common;
mod groups;
mod list;
mod promise;
mod purge;
mod purge_method;
mod tags;
