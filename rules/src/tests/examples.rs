use crate::ast::RuleScope;

use super::findings;

/// Checks rules for tasks from the language's own documentation, and for tasks that users have.
fn check(cases: &[(&str, &str)]) {
    for (task, lines) in cases {
        let scope =
            if *task == "count an odd status" { RuleScope::Server } else { RuleScope::Route };
        assert_eq!(findings(&lines.replace(" / ", "\n"), scope), [""; 0], "{task}");
    }
}

#[test]
fn common_tasks_are_read_without_a_finding() {
    check(&[
        (
            "no credentials in what is kept",
            "cond %{READ_RESPONSE_HDR_HOOK} / rm-header Set-Cookie / rm-header WWW-Authenticate",
        ),
        ("count an odd status", "cond %{STATUS} =418 / counter shop.teapots"),
        (
            "one status for many",
            "cond %{SEND_RESPONSE_HDR_HOOK} / cond %{STATUS} >399 / cond %{STATUS} <500 / \
             set-status 404",
        ),
        (
            "the origin decides",
            "cond %{SEND_REQUEST_HDR_HOOK} / rm-header Cache-Control / rm-header Pragma",
        ),
        (
            "internal fields for those who know",
            "cond %{SEND_RESPONSE_HDR_HOOK} / cond %{CLIENT-HEADER:X-Show} =all [NOT] / \
             rm-header X-Node / rm-header X-Rack",
        ),
        (
            "the method in the answer",
            "cond %{SEND_RESPONSE_HDR_HOOK} / set-header X-Asked %{METHOD}",
        ),
        (
            "a path and its lifetime",
            "cond %{SEND_RESPONSE_HDR_HOOK} / cond %{CLIENT-URL:PATH} /img\\/thumbs\\/.*/ / \
             add-header Cache-Control \"max-age=3600\" [L] / cond %{SEND_RESPONSE_HDR_HOOK} / \
             cond %{CLIENT-URL:PATH} /account/ / add-header Cache-Control \"no-cache\" [L]",
        ),
        (
            "elsewhere if the origin is gone",
            "cond %{SEND_RESPONSE_HDR_HOOK} / cond %{STATUS} =502 [OR] / cond %{STATUS} =504 / \
             set-redirect 302 http://spare.example.org/%{CLIENT-URL:PATH} [QSA]",
        ),
    ]);
}

#[test]
fn tasks_with_several_conditions_are_read_without_a_finding() {
    check(&[
        (
            "a lifetime where there is none",
            "cond %{READ_RESPONSE_HDR_HOOK} [AND] / cond %{HEADER:Cache-Control} =\"\" [AND] / \
             cond %{STATUS} >199 [AND] / cond %{STATUS} <300 / \
             set-header Cache-Control \"max-age=600, public\"",
        ),
        (
            "TLS only",
            "cond %{READ_RESPONSE_HDR_HOOK} [AND] / \
             cond %{HEADER:Strict-Transport-Security} =\"\" [AND] / cond %{INBOUND:TLS} /./ / \
             set-header Strict-Transport-Security \"max-age=63072000; includeSubDomains\"",
        ),
        (
            "many looks at once",
            "cond %{READ_RESPONSE_HDR_HOOK} / cond %{INBOUND:LOCAL-PORT} =8090 / \
             cond %{METHOD} =HEAD / cond %{CLIENT-HEADER:Accept-Language} /es-py/ [NOT] / \
             cond %{STATUS} =304 [OR] / cond %{RANDOM:500} >290 / set-status 403",
        ),
        (
            "another origin for phones",
            "cond %{REMAP_PSEUDO_HOOK} / cond %{HEADER:X-Mobile} = \"yes\" / \
             set-destination HOST m.example.org [L]",
        ),
        (
            "networks",
            "cond %{SEND_RESPONSE_HDR_HOOK} / cond %{CIDR:8} =\"8.0.0.0\" / \
             set-header X-Eight \"Yes\" / cond %{SEND_RESPONSE_HDR_HOOK} / \
             cond %{CIDR:,8} =\"fd00::\" # the second is for IPv6 / set-header X-Inside \"Yes\"",
        ),
        (
            "who is who",
            "cond %{SEND_RESPONSE_HDR_HOOK} / set-header X-Client-IP %{IP:CLIENT} / \
             set-header X-Inbound-IP %{IP:INBOUND} / set-header X-Server-IP %{IP:SERVER} / \
             add-header X-Both \"%{IP:SERVER}:%{INBOUND:LOCAL-PORT}\"",
        ),
        ("no parameters", "cond %{REMAP_PSEUDO_HOOK} / rm-destination QUERY"),
    ]);
}
