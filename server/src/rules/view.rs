//! A client's request as rules see it.

use forebay_rules::apply::RequestView;
use forebay_rules::run::Url;

use crate::parse::Request;

/// The view of a request, which was `received` before rules changed it.
pub(crate) fn view_of<'a>(request: &Request<'a>, received: &Request<'a>) -> RequestView<'a> {
    RequestView {
        method: request.head.method().as_bytes(),
        url: Url::new(request.target.authority, request.target.path_query),
        original: Url::new(received.target.authority, received.target.path_query),
        fields: request.head.fields(),
    }
}

/// The view of a request without rules, of which only the fields are looked at.
pub(crate) fn view_without_rules<'a>(request: &Request<'a>) -> RequestView<'a> {
    let url = Url::default();
    RequestView { method: b"", url, original: url, fields: request.head.fields() }
}
