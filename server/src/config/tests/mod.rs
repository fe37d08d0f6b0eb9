//! Configurations, good and bad, as tables; lookups; the documents against the table.

mod bad;
mod good;
mod lookup;
