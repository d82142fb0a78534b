<?php
// All categories: of the whole site, of one region, or for selling.
require '_site.php';
$region = number('region', 1, 0);
$place = $region > 0 ? row('SELECT name FROM regions WHERE id = ?', $region) : null;
if ($region > 0 && $place === null) {
    stop(404, 'There is no such region.');
}
$categories = rows('SELECT id, name FROM categories ORDER BY id');
page($region > 0 ? 'Categories in ' . $place['name'] : 'Categories');
echo '<ul>';
foreach ($categories as $category) {
    $link = $region > 0 ? 'region.php?category=' . $category['id'] . '&amp;region=' . $region : 'category.php?category=' . $category['id'];
    echo '<li><a href="', $link, '">', esc($category['name']), '</a></li>';
}
echo '</ul>';
done();
