<?php
// All regions.
require '_site.php';
$regions = rows('SELECT id, name FROM regions ORDER BY id');
page('Regions');
echo '<ul>';
foreach ($regions as $region) {
    echo '<li><a href="categories.php?region=', $region['id'], '">', esc($region['name']), '</a></li>';
}
echo '</ul>';
done();
