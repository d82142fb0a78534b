//! The numbers in a page's links.

use memchr::memchr_iter;

/// The links of a page. Numbers are in the order of the page, without repetitions in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Items.
    pub items: Vec<u32>,
    /// Members.
    pub users: Vec<u32>,
    /// Categories.
    pub categories: Vec<u32>,
    /// Regions.
    pub regions: Vec<u32>,
    /// The highest page of the same list.
    pub page: Option<u32>,
}

impl Links {
    /// Finds the links of a page; keeps its memory. A link is `name.php?key=number&amp;key=number`; other question
    /// marks are ignored.
    pub fn find(&mut self, body: &[u8]) {
        for list in [&mut self.items, &mut self.users, &mut self.categories, &mut self.regions] {
            list.clear();
        }
        self.page = None;
        for at in memchr_iter(b'?', body) {
            let mut rest = &body[at + 1..];
            while let Some((key, number, after)) = pair(rest) {
                match key {
                    b"item" => push(&mut self.items, number),
                    b"user" | b"to" => push(&mut self.users, number),
                    b"category" => push(&mut self.categories, number),
                    b"region" => push(&mut self.regions, number),
                    b"page" => self.page = self.page.max(Some(number)),
                    _ => {}
                }
                let Some(next) = after.strip_prefix(b"&amp;") else { break };
                rest = next;
            }
        }
    }
}

fn push(list: &mut Vec<u32>, number: u32) {
    if list.last() != Some(&number) {
        list.push(number);
    }
}

/// `key=value`, and the rest; the value is 0 if it is not a number.
fn pair(text: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let equals = text.iter().take(16).position(|&byte| byte == b'=')?;
    let value = &text[equals + 1..];
    let end =
        value.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(value.len());
    let number = std::str::from_utf8(&value[..end]).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0);
    Some((&text[..equals], number, &value[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_links_and_nowhere_else() {
        let body = br#"<h1>Who? Me</h1><a href="item.php?item=12">x</a> <a href="login.php?next=put_bid&amp;item=12">b</a>
            <a href="region.php?category=3&amp;region=40&amp;page=2">More</a><a href="user.php?user=7">u</a>
            <a href="categories.php?region=61">r</a> ?item= ?=5 ?item=99999999999 what?"#;
        let mut links = Links::default();
        links.find(body);
        assert_eq!(links.items, [12, 0], "one item, however often in a row; and two that are none");
        assert_eq!(links.users, [7]);
        assert_eq!(links.categories, [3]);
        assert_eq!(links.regions, [40, 61]);
        assert_eq!(links.page, Some(2));
        links.find(b"nothing");
        assert_eq!(links, Links::default());
    }
}
