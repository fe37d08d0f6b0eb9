//! State that a request keeps from hook to hook, and effects that rules request.

use std::ops::Range;

use crate::ast::HttpControl;

/// Variables of rules: `STATE-…` of a request, `SESSION-…` of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleVariables {
    /// The 16 flags, one bit for each.
    pub flags: u16,
    /// The variables `INT8:0` to `INT8:3`.
    pub int8: [u8; 4],
    /// The variable `INT16`.
    pub int16: u16,
}

/// The controls that `set-http-cntl` has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlSet {
    /// One bit for each control that was set, in the order of [`HttpControl`].
    set: u8,
    on: u8,
}

impl ControlSet {
    /// Returns the value that rules have set for a control; `None` if no rule has set it.
    pub fn of(self, control: HttpControl) -> Option<bool> {
        let bit = 1 << control as u8;
        (self.set & bit != 0).then_some(self.on & bit != 0)
    }

    /// Sets a control.
    pub fn set(&mut self, control: HttpControl, on: bool) {
        let bit = 1 << control as u8;
        self.set |= bit;
        self.on = if on { self.on | bit } else { self.on & !bit };
    }
}

/// The state that one request keeps from hook to hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionState {
    /// The variables `STATE-…`.
    pub state: RuleVariables,
    /// The controls that `set-http-cntl` has set.
    pub controls: ControlSet,
}

/// Effects that the rules of one hook request, other than changed fields. The ranges are those of
/// texts in [`RunBuffers`](super::RunBuffers).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// `set-status`, `set-redirect`: the status of the response. In an early hook, the request is
    /// answered with this status.
    pub status: Option<u16>,
    /// `set-status-reason`: the reason phrase of the response.
    pub reason: Option<Range<usize>>,
    /// `set-redirect`: the Location of the response.
    pub location: Option<Range<usize>>,
    /// `set-body`: the body of the response.
    pub body: Option<Range<usize>>,
    /// Whether the body has no variables, so that no part of it comes from a request.
    pub body_is_constant: bool,
    /// Whether the URL has changed. [`RunBuffers::url`](super::RunBuffers::url) returns the new
    /// URL.
    pub url_changed: bool,
    /// `set-conn-dscp`: the DSCP of the connection.
    pub dscp: Option<u8>,
}
