//! The pages of the site, which this program carries with it, and pictures.

use crate::error::AuctionError;
use crate::scenario::{picture, picture_name, PICTURES};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

macro_rules! pages {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../site/", $name)))),*] };
}

const PAGES: [(&str, &str); 29] = pages! {
    "_site.php" "bids.php" "browse.html" "buy_now.php" "catalogue.php" "categories.php" "category.php" "hammer.svg" "index.html"
    "item.php" "login.php" "me.html" "me.php" "put_bid.php" "put_comment.php" "region.php" "regions.php" "register.html"
    "register_item.php" "register_user.php" "search.php" "sell.html" "sell.php" "sell_item.php" "store_bid.php"
    "store_buy_now.php" "store_comment.php" "style.css" "user.php"
};

/// Writes all pages into a folder, readable by all, with pictures of this size.
pub(crate) fn write_pages(folder: &Path, picture_bytes: usize) -> Result<(), AuctionError> {
    let error =
        |action| move |path: &Path, source| AuctionError::Io { action, path: path.to_owned(), source };
    fs::create_dir_all(folder).map_err(|source| error("make")(folder, source))?;
    let readable = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(|source| error("open")(path, source))
    };
    readable(folder, 0o755)?;
    let pictures =
        (0..PICTURES).map(|number| (picture_name(number) + ".svg", picture(1, number, picture_bytes)));
    let pages = PAGES.iter().map(|&(name, text)| (name.to_owned(), text.to_owned()));
    for (name, text) in pages.chain(pictures) {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|source| error("write")(&path, source))?;
        readable(&path, 0o644)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_the_folder_is_carried_and_every_link_leads_to_one() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("pages");
        write_pages(&pages, 1000).unwrap();
        let names = |path: &Path| {
            let entries =
                fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = entries.filter(|name| !name.starts_with("picture")).collect();
            names.sort();
            names
        };
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("site");
        assert_eq!(names(&pages), names(&sources));
        for (name, text) in PAGES {
            for attribute in ["href=\"", "action=\"", "src=\""] {
                for link in text.split(attribute).skip(1) {
                    let target = link.split(['"', '?', '#', '\'']).next().unwrap();
                    assert!(target.is_empty() || pages.join(target).exists(), "{name} leads to {target}");
                }
            }
        }
    }
}
