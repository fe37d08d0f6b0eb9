//! What a request carries from hook to hook, and what rules want done with it.

use std::ops::Range;

use crate::ast::HttpControl;

/// Variables of rules: `STATE-…` of a request, `SESSION-…` of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleVariables {
    /// One bit for each of the 16 flags.
    pub flags: u16,
    /// `INT8:0` to `INT8:3`.
    pub int8: [u8; 4],
    /// `INT16`
    pub int16: u16,
}

/// What was switched by `set-http-cntl`, and to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlSet {
    /// One bit for each control that was set, in the order of [`Control`].
    set: u8,
    on: u8,
}

impl ControlSet {
    /// What a control was set to; `None` if no rule has said anything.
    pub fn of(self, control: HttpControl) -> Option<bool> {
        let bit = 1 << control as u8;
        (self.set & bit != 0).then_some(self.on & bit != 0)
    }

    /// A rule has said so.
    pub fn set(&mut self, control: HttpControl, on: bool) {
        let bit = 1 << control as u8;
        self.set |= bit;
        self.on = if on { self.on | bit } else { self.on & !bit };
    }
}

/// What one request carries from hook to hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionState {
    /// `STATE-…`
    pub state: RuleVariables,
    /// `set-http-cntl`
    pub controls: ControlSet,
}

/// What the rules of one hook want done beside changed fields. Texts lie in
/// [`RunBuffers`](super::RunBuffers).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// `set-status`, `set-redirect`: in early hooks an answer of our own with this status.
    pub status: Option<u16>,
    /// `set-status-reason`
    pub reason: Option<Range<usize>>,
    /// `set-redirect`: Location of the answer.
    pub location: Option<Range<usize>>,
    /// `set-body`
    pub body: Option<Range<usize>>,
    /// No variable is in it: nobody else has written any of it.
    pub body_is_constant: bool,
    /// The URL has changed; its parts are in [`RunBuffers::url`](super::RunBuffers::url).
    pub url_changed: bool,
    /// `set-conn-dscp`
    pub dscp: Option<u8>,
}
