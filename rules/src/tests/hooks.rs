use crate::{
    ast::{Hook, RuleScope},
    read::read,
};

use super::{findings, rules};

const HOOKS: [(&str, Hook); 5] = [
    ("READ_REQUEST_HDR_HOOK", Hook::ReadRequest),
    ("REMAP_PSEUDO_HOOK", Hook::Remap),
    ("SEND_REQUEST_HDR_HOOK", Hook::SendRequest),
    ("READ_RESPONSE_HDR_HOOK", Hook::ReadResponse),
    ("SEND_RESPONSE_HDR_HOOK", Hook::SendResponse),
];

#[test]
fn every_hook_maps_to_a_point_of_the_flow() {
    for (name, scope, expected) in [
        ("READ_REQUEST_HDR_HOOK", RuleScope::Server, Hook::ReadRequest),
        ("READ_REQUEST_PRE_REMAP_HOOK", RuleScope::Server, Hook::ReadRequest),
        ("TXN_START_HOOK", RuleScope::Server, Hook::ReadRequest),
        ("POST_REMAP_HOOK", RuleScope::Server, Hook::Remap),
        ("REMAP_PSEUDO_HOOK", RuleScope::Route, Hook::Remap),
        ("POST_REMAP_HOOK", RuleScope::Route, Hook::Remap),
        ("SEND_REQUEST_HDR_HOOK", RuleScope::Route, Hook::SendRequest),
        ("READ_RESPONSE_HDR_HOOK", RuleScope::Route, Hook::ReadResponse),
        ("SEND_RESPONSE_HDR_HOOK", RuleScope::Route, Hook::SendResponse),
        // Hooks often have flags that have no effect.
        ("SEND_RESPONSE_HDR_HOOK} [AND", RuleScope::Server, Hook::SendResponse),
    ] {
        let name = name.replace("} [AND", "} [AND]").replace("HOOK}", "HOOK");
        let line = match name.split_once(' ') {
            Some((name, flags)) => format!("cond %{{{name}}} {flags}"),
            None => format!("cond %{{{name}}}"),
        };
        let found = rules(&format!("{line}\nno-op"), scope);
        assert_eq!(found.iter().map(|rule| rule.hook).collect::<Vec<_>>(), [expected], "{line}");
    }
}

/// The pattern of each line shows which of the five hooks accept the line: `x` accepts it, `-` does
/// not.
#[test]
fn conditions_and_operators_are_allowed_where_they_have_a_meaning() {
    for (line, allowed) in [
        ("cond %{HEADER:A} =a", "xxxxx"),
        ("cond %{STATUS} =200", "---xx"),
        ("cond %{NEXT-HOP:HOST} =a", "-xxxx"),
        ("cond %{FROM-URL:HOST} =a", "-x---"),
        ("cond %{TO-URL:HOST} =a", "-x---"),
        ("cond %{SERVER-URL:HOST} =a", "-xxxx"),
        ("set-header A b", "xxxxx"),
        ("set-header A %{STATUS}", "---xx"),
        ("rm-header A", "xxxxx"),
        ("add-cookie a b", "xxx--"),
        ("set-cookie a b", "xxx--"),
        ("rm-cookie a", "xxx--"),
        ("set-destination HOST a", "xx---"),
        ("rm-destination QUERY", "xx---"),
        ("set-status 403", "xx-xx"),
        ("set-status 204", "xx---"),
        ("set-status 304", "xx---"),
        ("set-status-reason Gone", "----x"),
        ("set-redirect 301 http://a/", "xx-xx"),
        ("set-body a", "xx--x"),
        ("set-conn-dscp 8", "xx--x"),
        ("set-http-cntl LOGGING off", "xx-xx"),
        ("set-http-cntl REQ_CACHEABLE off", "xx---"),
        ("set-http-cntl RESP_CACHEABLE off", "xx-x-"),
        ("set-http-cntl SERVER_NO_STORE on", "xx-x-"),
        ("set-state-flag 1 on", "xxxxx"),
        ("set-session-int8 1 1", "xxxxx"),
        ("set-state-int16 1", "xxxxx"),
        ("counter a", "xxxxx"),
        ("no-op", "xxxxx"),
    ] {
        let takes = |(name, _): (&str, Hook)| {
            let early = name == "READ_REQUEST_HDR_HOOK";
            let scope = if early { RuleScope::Server } else { RuleScope::Route };
            let text = format!("cond %{{{name}}}\n{line}\nno-op");
            if read("test", &text, scope).is_usable() { 'x' } else { '-' }
        };
        let found: String = HOOKS.into_iter().map(takes).collect();
        assert_eq!(found, allowed, "{line}");
    }
}

#[test]
fn a_hook_of_another_scope_is_refused_with_the_right_one() {
    for (name, scope, hint) in [
        ("READ_REQUEST_HDR_HOOK", RuleScope::Route, "REMAP_PSEUDO_HOOK here"),
        ("READ_REQUEST_PRE_REMAP_HOOK", RuleScope::Route, "REMAP_PSEUDO_HOOK here"),
        ("TXN_START_HOOK", RuleScope::Route, "REMAP_PSEUDO_HOOK here"),
        ("REMAP_PSEUDO_HOOK", RuleScope::Server, "use READ_REQUEST_HDR_HOOK"),
        ("TXN_CLOSE_HOOK", RuleScope::Server, "SEND_RESPONSE_HDR_HOOK is the last"),
        ("SEND_RESPONSE_HOOK", RuleScope::Server, "did you mean SEND_RESPONSE_HDR_HOOK?"),
    ] {
        let found = findings(&format!("cond %{{{name}}}\nno-op"), scope);
        assert!(found.len() == 1 && found[0].contains(hint), "{name}: {found:?}");
        assert!(found[0].starts_with(&format!("1:8+{} ", name.len())), "{name}: {found:?}");
    }
}
