<?php
// A member chooses the category of what he sells.
require '_site.php';
$member = member();
$categories = rows('SELECT id, name FROM categories ORDER BY id');
page('What do you sell');
echo '<ul>';
foreach ($categories as $category) {
    echo '<li><a href="sell_item.php?category=', $category['id'], '&amp;user=', $member['id'], '">', esc($category['name']), '</a></li>';
}
echo '</ul>';
done();
